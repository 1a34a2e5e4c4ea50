module tsduel/tools/opentofu

go 1.26.6

tool github.com/opentofu/opentofu/cmd/tofu

require github.com/opentofu/opentofu v1.12.6

// As in OpenTofu's own go.mod. What it requires follows from its version; go.sum has the checksums.
godebug (
	tlsmlkem=0
	winsymlink=0
)

replace github.com/hashicorp/hcl/v2 v2.20.1 => github.com/opentofu/hcl/v2 v2.20.2-0.20251021132045-587d123c2828
