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

run "a_machine_alone" {
  command = plan

  assert {
    condition = alltrue([for main in [google_compute_instance.main["host1"]] : alltrue([
      main.scheduling[0].termination_time == "2026-11-20T18:15:00Z",
      main.scheduling[0].instance_termination_action == "DELETE",
      main.scheduling[0].automatic_restart,
      main.boot_disk[0].auto_delete,
    ])])
    error_message = "it does not delete itself and its disk when its label says, or stays stopped, where Google never deletes"
  }
  assert {
    condition = alltrue([
      for labels in [google_compute_instance.main["host1"].labels, google_compute_instance.main["host1"].boot_disk[0].initialize_params[0].labels] :
      labels == tomap({ expires = "20261120t181500z", tsduel-run = "tsduel-test-0a1b2c" })
    ])
    error_message = "the labels of machine and disk are not tsduel-run and expires alone"
  }
  assert {
    condition     = strcontains(google_compute_network.main[0].description, "expires 20261120t181500z")
    error_message = "the network does not say until when it is needed, and make reap would not find it"
  }
  assert {
    condition = alltrue([for main in [google_compute_instance.main["host1"]] : alltrue([
      length(main.service_account) == 0,
      main.shielded_instance_config[0].enable_secure_boot,
      main.shielded_instance_config[0].enable_vtpm,
      main.shielded_instance_config[0].enable_integrity_monitoring,
    ])])
    error_message = "the machine can act in the project, or is not shielded"
  }
  assert {
    condition = alltrue([for metadata in [google_compute_instance.main["host1"].metadata] : alltrue([
      metadata["ssh-keys"] == "tsduel:${var.public_key}",
      metadata["block-project-ssh-keys"] == "TRUE",
      metadata["enable-oslogin"] == "FALSE",
      metadata["enable-guest-attributes"] == "TRUE",
      strcontains(metadata["startup-script"], "tsduel-host-key "),
    ])])
    error_message = "another key than this run's opens the machine, or its host keys cannot be asked for"
  }
  assert {
    condition = alltrue([for main in [google_compute_instance.main["host1"]] : alltrue([
      main.scheduling[0].provisioning_model == "STANDARD" && !main.scheduling[0].preemptible,
      main.machine_type == "e2-standard-8" && main.zone == "us-central1-a",
      length(main.advanced_machine_features) == 0,
    ])])
    error_message = "the default is not VictoriaMetrics' own machine, of standard price, with the threads of its type"
  }
  assert {
    condition = alltrue([for ssh in [google_compute_firewall.ssh[0]] : alltrue([
      ssh.source_ranges == toset(["203.0.113.7/32"]),
      [for rule in ssh.allow : "${rule.protocol} ${join(",", rule.ports)}"] == ["tcp 22"],
      ssh.direction == "INGRESS" && ssh.target_tags == google_compute_instance.main["host1"].tags,
    ])])
    error_message = "more than SSH is let in, or from elsewhere than ssh_source_ranges, or to other machines"
  }
  assert {
    condition = alltrue([
      google_compute_network.main[0].name == var.name && !google_compute_network.main[0].auto_create_subnetworks,
      google_compute_subnetwork.main[0].region == "us-central1",
    ])
    error_message = "the network is not this run's alone, or not in the machine's region"
  }
  assert {
    condition     = length(google_compute_router.main) + length(google_compute_router_nat.main) == 0
    error_message = "a machine with a public address needs no Cloud NAT, which costs money"
  }
}

run "what_cannot_be_moved_is_stopped" {
  command = plan
  variables {
    hosts = {
      host1 = { machine_type = "e2-standard-8" }
      host2 = { machine_type = "h4d-standard-192" }
      host3 = { machine_type = "c3-standard-192-metal" }
    }
    zones = { host1 = "us-central1-a", host2 = "us-central1-a", host3 = "us-central1-a" }
  }

  assert {
    condition     = { for name, main in google_compute_instance.main : name => main.scheduling[0].on_host_maintenance } == { host1 = "MIGRATE", host2 = "TERMINATE", host3 = "TERMINATE" }
    error_message = "Google moves no H4D and no bare metal while it runs, and moves every E2"
  }
}

run "spot_is_opted_in" {
  command = plan
  variables {
    spot = true
  }

  assert {
    condition = alltrue([for scheduling in google_compute_instance.main["host1"].scheduling : alltrue([
      scheduling.provisioning_model == "SPOT" && scheduling.on_host_maintenance == "TERMINATE",
      scheduling.termination_time == "2026-11-20T18:15:00Z" && scheduling.instance_termination_action == "DELETE",
      !scheduling.automatic_restart, # Google refuses it of spot machines
    ])])
    error_message = "it is no spot machine that Google takes, and that deletes itself"
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

run "another_machine_elsewhere" {
  command = plan
  variables {
    hosts = { host1 = { boot_disk_type = "hyperdisk-balanced", machine_type = "c3-standard-8", threads_per_core = 1 } }
    zones = { host1 = "europe-west4-a" }
  }

  assert {
    condition = alltrue([
      google_compute_instance.main["host1"].advanced_machine_features[0].threads_per_core == 1,
      google_compute_instance.main["host1"].boot_disk[0].initialize_params[0].type == "hyperdisk-balanced",
      google_compute_subnetwork.main[0].region == "europe-west4",
    ])
    error_message = "threads, disk or region are not those that were asked for"
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
    condition     = alltrue([for main in google_compute_instance.main : main.labels["tsduel-run"] == var.name && main.scheduling[0].termination_time == "2026-11-20T18:15:00Z" && main.tags == google_compute_firewall.ssh[0].target_tags])
    error_message = "a machine of the fleet is not this run's, would outlive it, or cannot be logged in to"
  }
}

run "iap_needs_no_public_address" {
  command = plan
  variables {
    ssh_source_ranges = []
    ssh_via           = "iap"
  }

  assert {
    condition = alltrue([
      length(google_compute_instance.main["host1"].network_interface[0].access_config) == 0,
      google_compute_firewall.ssh[0].source_ranges == toset(["35.235.240.0/20"]),
      length(google_compute_router_nat.main) == 1,
    ])
    error_message = "it has a public address, SSH from elsewhere than the Identity-Aware Proxy, or no way out to packages"
  }
}
