# The machine: it deletes itself, it can act on nothing, and only this run's key opens it. The network: one way in, from
# where the user says, and nothing of anybody else's. What is refused: tests/test_terraform.py.
mock_provider "google" {}

variables {
  name              = "tsduel-test-0a1b2c"
  project           = "some-project"
  public_key        = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLcdKGDC9xVpRvGgLrG5lFGIXmbqv6zsJx1LHUQ2yeA tsduel"
  expires           = "20261120t181500z"
  image             = "projects/debian-cloud/global/images/debian-12-bookworm-v20261006"
  ssh_source_ranges = ["203.0.113.7/32"]
}

run "it_deletes_itself" {
  command = plan

  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].termination_time == "2026-11-20T18:15:00Z"
    error_message = "the machine's end is not what its label says"
  }
  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].instance_termination_action == "DELETE"
    error_message = "at the end of its life the machine is not deleted"
  }
  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].automatic_restart
    error_message = "a machine whose host fails would stay stopped, and Google does not delete what is stopped"
  }
  assert {
    condition     = google_compute_instance.main["host1"].boot_disk[0].auto_delete
    error_message = "the disk would outlive the machine"
  }
}

run "it_says_whose_it_is_and_until_when" {
  command = plan

  assert {
    condition     = google_compute_instance.main["host1"].labels == tomap({ expires = "20261120t181500z", tsduel-run = "tsduel-test-0a1b2c" })
    error_message = "the machine's labels are not tsduel-run and expires alone"
  }
  assert {
    condition     = google_compute_instance.main["host1"].boot_disk[0].initialize_params[0].labels == tomap({ expires = "20261120t181500z", tsduel-run = "tsduel-test-0a1b2c" })
    error_message = "the disk's labels are not those of the machine"
  }
  assert {
    condition     = strcontains(google_compute_network.main.description, "expires 20261120t181500z")
    error_message = "the network does not say until when it is needed, and make reap would not find it"
  }
}

run "it_can_act_on_nothing" {
  command = plan

  assert {
    condition     = length(google_compute_instance.main["host1"].service_account) == 0
    error_message = "the machine has a service account"
  }
  assert {
    condition = alltrue([
      google_compute_instance.main["host1"].shielded_instance_config[0].enable_secure_boot,
      google_compute_instance.main["host1"].shielded_instance_config[0].enable_vtpm,
      google_compute_instance.main["host1"].shielded_instance_config[0].enable_integrity_monitoring,
    ])
    error_message = "the machine is not shielded"
  }
}

run "only_this_runs_key_opens_it" {
  command = plan

  assert {
    condition     = google_compute_instance.main["host1"].metadata["ssh-keys"] == "tsduel:${var.public_key}"
    error_message = "the machine lets in another key than this run's"
  }
  assert {
    condition     = google_compute_instance.main["host1"].metadata["block-project-ssh-keys"] == "TRUE" && google_compute_instance.main["host1"].metadata["enable-oslogin"] == "FALSE"
    error_message = "the project's keys open the machine"
  }
}

run "the_default_is_standard" {
  command = plan

  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].provisioning_model == "STANDARD" && !google_compute_instance.main["host1"].scheduling[0].preemptible
    error_message = "a machine that nobody asked to be spot is"
  }
  assert {
    condition     = google_compute_instance.main["host1"].machine_type == "e2-standard-8" && google_compute_instance.main["host1"].zone == "us-central1-a"
    error_message = "the default machine is not VictoriaMetrics' own"
  }
  assert {
    condition     = length(google_compute_instance.main["host1"].advanced_machine_features) == 0
    error_message = "the machine's threads are not as its type has them"
  }
}

run "spot_is_opted_in" {
  command = plan
  variables {
    spot = true
  }

  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].provisioning_model == "SPOT" && google_compute_instance.main["host1"].scheduling[0].on_host_maintenance == "TERMINATE"
    error_message = "spot = true does not make a spot machine"
  }
  assert {
    condition     = google_compute_instance.main["host1"].scheduling[0].termination_time == "2026-11-20T18:15:00Z" && google_compute_instance.main["host1"].scheduling[0].instance_termination_action == "DELETE"
    error_message = "a spot machine does not delete itself"
  }
  assert {
    condition     = !google_compute_instance.main["host1"].scheduling[0].automatic_restart
    error_message = "Google refuses spot machines that are to be restarted"
  }
}

run "its_host_keys_are_on_the_console" {
  command = plan

  assert {
    condition     = strcontains(google_compute_instance.main["host1"].metadata["startup-script"], "tsduel-host-key ") && google_compute_instance.main["host1"].metadata["enable-guest-attributes"] == "TRUE"
    error_message = "the host keys cannot be asked for"
  }
}

run "os_login_takes_no_key_of_the_machines" {
  command = plan
  variables {
    os_login = true
  }

  assert {
    condition     = google_compute_instance.main["host1"].metadata["enable-oslogin"] == "TRUE" && !contains(keys(google_compute_instance.main["host1"].metadata), "ssh-keys")
    error_message = "os_login = true does not leave the login to OS Login"
  }
}

run "a_thread_of_each_core" {
  command = plan
  variables {
    hosts = { host1 = { machine_type = "c3-standard-8", threads_per_core = 1 } }
  }

  assert {
    condition     = google_compute_instance.main["host1"].advanced_machine_features[0].threads_per_core == 1
    error_message = "threads_per_core = 1 does not reach the machine"
  }
}

run "an_n4_on_hyperdisk" {
  command = plan
  variables {
    hosts = { host1 = { boot_disk_type = "hyperdisk-balanced", machine_type = "n4-standard-8" } }
  }

  assert {
    condition     = google_compute_instance.main["host1"].boot_disk[0].initialize_params[0].type == "hyperdisk-balanced"
    error_message = "the disk is not what was asked for"
  }
}

run "a_fleet_of_several_kinds" {
  command = plan
  variables {
    hosts = {
      host1 = {}
      host2 = { machine_type = "n2-standard-8", threads_per_core = 1 }
      host3 = {}
    }
    # No zone has a third e2-standard-8 left.
    zones = { host1 = "us-central1-a", host2 = "us-central1-b" }
  }

  assert {
    condition     = { for name, main in google_compute_instance.main : name => "${main.name} ${main.machine_type} ${main.zone}" } == { host1 = "tsduel-test-0a1b2c-host1 e2-standard-8 us-central1-a", host2 = "tsduel-test-0a1b2c-host2 n2-standard-8 us-central1-b" }
    error_message = "the machines are not those that have a zone, each as its host is"
  }
  assert {
    condition     = alltrue([for main in google_compute_instance.main : main.labels["tsduel-run"] == var.name && main.scheduling[0].termination_time == "2026-11-20T18:15:00Z" && main.tags == google_compute_firewall.ssh.target_tags])
    error_message = "a machine of the fleet is not this run's, would outlive it, or cannot be logged in to"
  }
}

run "other_x86_machines_are_taken" {
  command = plan
  variables {
    hosts = { host1 = { boot_disk_type = "pd-ssd", machine_type = "c3-standard-8" } }
    zones = { host1 = "europe-west4-a" }
  }

  assert {
    condition     = google_compute_subnetwork.main.region == "europe-west4"
    error_message = "the region does not follow from the zone"
  }
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
