package exchange

// Orders returns the sequences in which the sides take their turns; after the last one follows the first. They are
// the rows of a Williams square (each side is equally often in each place and before each other side), each
// row as: row, mirror, mirror, row. For two sides: B C, C B, C B, B C.
func Orders[S any](sides []S) (all [][]S) {
	rows := len(sides)
	if rows%2 == 0 {
		rows /= 2 // the mirrors are the other rows of the square
	}
	for shift := range rows {
		row, mirror := make([]S, len(sides)), make([]S, len(sides))
		for i := range row {
			step := (i + 1) / 2 // 0 1 -1 2 -2 ...
			if i%2 == 0 {
				step = len(sides) - step
			}
			row[i] = sides[(step+shift)%len(sides)]
			mirror[len(sides)-1-i] = row[i]
		}
		all = append(all, row, mirror, mirror, row)
	}
	return all
}

// Cycle returns after how many exchanges each side was asked equally often in each place.
func Cycle(sides, inFlight int) int { return len(Orders(inOrder(nil, sides))) * Burst(inFlight) }

// Burst returns how many operations a side gets before it is the next side's turn.
func Burst(inFlight int) int {
	if inFlight > 1 {
		return 4 * inFlight
	}
	return 1
}

// inOrder returns the order, or 0 1 2 ... if it is nil.
func inOrder(order []int, sides int) []int {
	for i := len(order); i < sides; i++ {
		order = append(order, i)
	}
	return order
}
