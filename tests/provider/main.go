// The google provider for tests where no Terraform registry answers: 4.0.0, the newest one that is a Go module. It also
// knows what terraform/ uses of an instance and only later versions have: three attributes of `scheduling`,
// `advanced_machine_features`, `params` and Hyperdisk. Its requests pass a proxy of ours that adds `scheduling` as 7.x
// sends it (google/services/compute/compute_instance_helpers.go: camel case, what is empty left out) and the label that
// 7.x adds; the rest it keeps in the state and does not send. All else is the real provider.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
	"github.com/hashicorp/terraform-provider-google/google"
)

const endpoint = "GOOGLE_COMPUTE_CUSTOM_ENDPOINT"

func main() {
	if err := startProxy(os.Getenv(endpoint)); err != nil {
		panic(err)
	}
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
	params := map[string]*schema.Schema{"resource_manager_tags": {
		Type: schema.TypeMap, Optional: true, ForceNew: true, Elem: &schema.Schema{Type: schema.TypeString},
	}}
	instance.Schema["params"] = &schema.Schema{
		Type: schema.TypeList, Optional: true, ForceNew: true, MaxItems: 1, Elem: &schema.Resource{Schema: params},
	}
	disk["resource_manager_tags"] = params["resource_manager_tags"]
	create := keepScheduling(instance.Create)
	instance.Create = func(d *schema.ResourceData, meta interface{}) error {
		if given, ok := d.Get("scheduling.0").(map[string]interface{}); ok {
			asked.Store(d.Get("name"), given)
		}
		return create(d, meta)
	}
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

// asked has the scheduling of each instance that is being made, by its name.
var asked sync.Map

// startProxy puts itself between the provider and its endpoint.
func startProxy(to string) error {
	target, err := url.Parse(to)
	if err != nil || to == "" {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{Director: func(r *http.Request) {
		r.URL.Scheme, r.URL.Host, r.Host = target.Scheme, target.Host, target.Host
		if r.Method != http.MethodPost || path.Base(r.URL.Path) != "instances" {
			return
		}
		text, _ := io.ReadAll(r.Body)
		body := map[string]interface{}{}
		if json.Unmarshal(text, &body) == nil {
			complete(body)
			text, _ = json.Marshal(body)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Del("Content-Length")
	}}
	go func() { _ = http.Serve(listener, proxy) }()
	return os.Setenv(endpoint, "http://"+listener.Addr().String()+target.Path)
}

// complete adds what 7.x sends.
func complete(body map[string]interface{}) {
	given, ok := asked.Load(body["name"])
	if !ok {
		return
	}
	scheduling, _ := body["scheduling"].(map[string]interface{})
	if scheduling == nil {
		scheduling = map[string]interface{}{}
		body["scheduling"] = scheduling
	}
	for _, name := range []string{"provisioning_model", "instance_termination_action", "termination_time"} {
		if value, _ := given.(map[string]interface{})[name].(string); value != "" {
			words := strings.Split(name, "_")
			for i, word := range words[1:] {
				words[i+1] = strings.ToUpper(word[:1]) + word[1:]
			}
			scheduling[strings.Join(words, "")] = value
		}
	}
	labels, _ := body["labels"].(map[string]interface{})
	if labels == nil {
		labels = map[string]interface{}{}
		body["labels"] = labels
	}
	labels["goog-terraform-provisioned"] = "true"
}
