package block

// usage is what each component of a variant has used, by role: ns of CPU, or bytes.
type usage map[string]int64

func (u usage) sum() (sum int64) {
	for _, used := range u {
		sum += used
	}
	return sum
}

func (u usage) since(before usage) usage {
	grown := usage{}
	for role, used := range u {
		grown[role] = used - before[role]
	}
	return grown
}
