package servers

// Usage is what each component of a variant has used, by role: ns of CPU, or bytes.
type Usage map[string]int64

func (u Usage) Sum() (sum int64) {
	for _, used := range u {
		sum += used
	}
	return sum
}

func (u Usage) Since(before Usage) Usage {
	grown := Usage{}
	for role, used := range u {
		grown[role] = used - before[role]
	}
	return grown
}
