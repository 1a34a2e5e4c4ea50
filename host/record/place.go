package record

import "encoding/json"

// Place is where the blocks run: local, ssh or gcp.
type Place struct {
	Kind  string `json:"kind"`
	Price *struct {
		Hour float64 `json:"hour"`
	} `json:"price"`
}

// Pin is host.pin. Mode: auto, off, or fixed with the CPUs of both sides.
type Pin struct {
	Mode   string `json:"mode"`
	Server []int  `json:"server"`
	Client []int  `json:"client"`
	Reason string `json:"reason"` // why nothing is pinned, or not all CPUs are used
}

// UnmarshalJSON reads a mode, or an object with the CPUs.
func (p *Pin) UnmarshalJSON(text []byte) error {
	*p = Pin{Mode: "fixed"}
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &p.Mode)
	}
	type plain Pin
	return json.Unmarshal(text, (*plain)(p))
}
