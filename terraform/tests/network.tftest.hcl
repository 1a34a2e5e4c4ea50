# The network: one way in, from where the user says, and nothing of anybody else's.
mock_provider "google" {}

variables {
  name              = "tsduel-test-0a1b2c"
  project           = "some-project"
  public_key        = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLcdKGDC9xVpRvGgLrG5lFGIXmbqv6zsJx1LHUQ2yeA tsduel"
  expires           = "20261120t181500z"
  image             = "projects/debian-cloud/global/images/debian-12-bookworm-v20261006"
  ssh_source_ranges = ["203.0.113.7/32"]
}

run "ssh_is_the_only_way_in" {
  command = plan

  assert {
    condition     = google_compute_firewall.ssh.source_ranges == toset(["203.0.113.7/32"])
    error_message = "SSH is let in from elsewhere than ssh_source_ranges"
  }
  assert {
    condition     = [for rule in google_compute_firewall.ssh.allow : "${rule.protocol} ${join(",", rule.ports)}"] == ["tcp 22"]
    error_message = "more than SSH is let in"
  }
  assert {
    condition     = google_compute_firewall.ssh.direction == "INGRESS" && google_compute_firewall.ssh.target_tags == google_compute_instance.main["host1"].tags
    error_message = "the rule is not about this machine"
  }
}

run "the_network_is_its_own" {
  command = plan

  assert {
    condition     = google_compute_network.main.name == var.name && !google_compute_network.main.auto_create_subnetworks
    error_message = "the network is not this run's alone"
  }
  assert {
    condition     = google_compute_subnetwork.main.region == "us-central1"
    error_message = "the subnetwork is not in the machine's region"
  }
  assert {
    condition     = length(google_compute_router.main) == 0 && length(google_compute_router_nat.main) == 0
    error_message = "a machine with a public address needs no Cloud NAT, which costs money"
  }
}

run "iap_needs_no_public_address" {
  command = plan
  variables {
    ssh_source_ranges = []
    ssh_via           = "iap"
  }

  assert {
    condition     = length(google_compute_instance.main["host1"].network_interface[0].access_config) == 0
    error_message = "the machine has a public address"
  }
  assert {
    condition     = google_compute_firewall.ssh.source_ranges == toset(["35.235.240.0/20"])
    error_message = "SSH is let in from elsewhere than the Identity-Aware Proxy"
  }
  assert {
    condition     = length(google_compute_router_nat.main) == 1
    error_message = "the machine cannot fetch packages without Cloud NAT"
  }
}

run "alone_a_machine_opens_nothing_more" {
  command = plan

  assert {
    condition     = length(google_compute_firewall.between) == 0 && !contains(keys(google_compute_instance.main["host1"].labels), "tsduel-roles")
    error_message = "a machine that does it all has ports open for others"
  }
}

run "a_group_opens_its_ports_to_itself" {
  command = plan
  variables {
    hosts         = { host1 = { roles = ["client"] }, host2 = { roles = ["vmselect", "vminsert"] }, host3 = { roles = ["vmstorage"] } }
    ports_between = "8428-8528"
    zones         = { host1 = "us-central1-a", host2 = "us-central1-a", host3 = "us-central1-a" }
  }

  assert {
    condition     = [for rule in google_compute_firewall.between[0].allow : "${rule.protocol} ${join(",", rule.ports)}"] == ["tcp 8428-8528"]
    error_message = "the ports are not those of the components and of what starts them"
  }
  assert {
    condition     = google_compute_firewall.between[0].source_tags == toset([var.name]) && google_compute_firewall.between[0].target_tags == toset([var.name]) && google_compute_firewall.between[0].direction == "INGRESS"
    error_message = "the ports are open from elsewhere than the run's own machines, or to others"
  }
  assert {
    condition     = [for rule in google_compute_firewall.ssh.allow : "${rule.protocol} ${join(",", rule.ports)}"] == ["tcp 22"]
    error_message = "more than SSH is let in from elsewhere"
  }
  assert {
    condition     = { for name, main in google_compute_instance.main : name => main.labels["tsduel-roles"] } == { host1 = "client", host2 = "vmselect_vminsert", host3 = "vmstorage" }
    error_message = "the machines do not say what they do"
  }
  assert {
    condition     = alltrue([for main in google_compute_instance.main : main.tags == toset([var.name])])
    error_message = "a machine of the group has another tag than the rules are about"
  }
}
