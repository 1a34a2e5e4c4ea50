// The google provider for tests where no Terraform registry answers: 4.0.0, the newest one that is a Go module. It also
// knows what terraform/ uses of an instance and only later versions have: three attributes of `scheduling`,
// `advanced_machine_features` and Hyperdisk. It keeps these in the state and does not send them. All else is the real
// provider.
package main

import (
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
	"github.com/hashicorp/terraform-provider-google/google"
)

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: provider})
}

func provider() *schema.Provider {
	p := google.Provider()
	instance := p.ResourcesMap["google_compute_instance"]
	// As 7.x declares them.
	optional := func(kind schema.ValueType) *schema.Schema {
		return &schema.Schema{Type: kind, Optional: true, ForceNew: true}
	}
	scheduling := instance.Schema["scheduling"].Elem.(*schema.Resource).Schema
	scheduling["provisioning_model"] = optional(schema.TypeString)
	scheduling["instance_termination_action"] = optional(schema.TypeString)
	scheduling["termination_time"] = optional(schema.TypeString)
	instance.Schema["advanced_machine_features"] = &schema.Schema{
		Type: schema.TypeList, Optional: true, ForceNew: true, MaxItems: 1,
		Elem: &schema.Resource{Schema: map[string]*schema.Schema{"threads_per_core": optional(schema.TypeInt)}},
	}
	disk := instance.Schema["boot_disk"].Elem.(*schema.Resource).Schema["initialize_params"].Elem.(*schema.Resource).Schema
	disk["type"].ValidateFunc = nil // it knows no Hyperdisk
	instance.Create = keepScheduling(instance.Create)
	instance.Read = keepScheduling(instance.Read)
	return p
}

// What the API answers is missing what was not sent; else the next plan would want another machine.
func keepScheduling(do func(*schema.ResourceData, interface{}) error) func(*schema.ResourceData, interface{}) error {
	return func(d *schema.ResourceData, meta interface{}) error {
		before := d.Get("scheduling")
		if err := do(d, meta); err != nil || d.Id() == "" {
			return err
		}
		return d.Set("scheduling", before)
	}
}
