# The machine: it deletes itself, it can act on nothing, and only this run's key opens it.
mock_provider "google" {}

variables {
  name              = "tsduel-test-0a1b2c"
  project           = "some-project"
  public_key        = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLcdKGDC9xVpRvGgLrG5lFGIXmbqv6zsJx1LHUQ2yeA tsduel"
  expires           = "20261120t181500z"
  lifetime_s        = 7200
  ssh_source_ranges = ["203.0.113.7/32"]
}

run "it_deletes_itself" {
  command = plan

  assert {
    condition     = google_compute_instance.main.scheduling[0].max_run_duration[0].seconds == 7200
    error_message = "the machine's life is not lifetime_s"
  }
  assert {
    condition     = google_compute_instance.main.scheduling[0].instance_termination_action == "DELETE"
    error_message = "at the end of its life the machine is not deleted"
  }
  assert {
    condition     = google_compute_instance.main.scheduling[0].automatic_restart == false
    error_message = "a machine that restarts has lost its rounds and goes on costing money"
  }
  assert {
    condition     = google_compute_instance.main.boot_disk[0].auto_delete
    error_message = "the disk would outlive the machine"
  }
}

run "it_says_whose_it_is_and_until_when" {
  command = plan

  assert {
    condition     = google_compute_instance.main.labels == tomap({ expires = "20261120t181500z", tsduel-run = "tsduel-test-0a1b2c" })
    error_message = "the machine's labels are not tsduel-run and expires alone"
  }
  assert {
    condition     = google_compute_instance.main.boot_disk[0].initialize_params[0].labels == tomap({ expires = "20261120t181500z", tsduel-run = "tsduel-test-0a1b2c" })
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
    condition     = length(google_compute_instance.main.service_account) == 0
    error_message = "the machine has a service account"
  }
  assert {
    condition = alltrue([
      google_compute_instance.main.shielded_instance_config[0].enable_secure_boot,
      google_compute_instance.main.shielded_instance_config[0].enable_vtpm,
      google_compute_instance.main.shielded_instance_config[0].enable_integrity_monitoring,
    ])
    error_message = "the machine is not shielded"
  }
}

run "only_this_runs_key_opens_it" {
  command = plan

  assert {
    condition     = google_compute_instance.main.metadata["ssh-keys"] == "tsduel:${var.public_key}"
    error_message = "the machine lets in another key than this run's"
  }
  assert {
    condition     = google_compute_instance.main.metadata["block-project-ssh-keys"] == "TRUE" && google_compute_instance.main.metadata["enable-oslogin"] == "FALSE"
    error_message = "the project's keys open the machine"
  }
}

run "the_default_is_standard" {
  command = plan

  assert {
    condition     = google_compute_instance.main.scheduling[0].provisioning_model == "STANDARD" && !google_compute_instance.main.scheduling[0].preemptible
    error_message = "a machine that nobody asked to be spot is"
  }
  assert {
    condition     = google_compute_instance.main.machine_type == "e2-standard-8" && google_compute_instance.main.zone == "us-central1-a"
    error_message = "the default machine is not VictoriaMetrics' own"
  }
  assert {
    condition     = startswith(google_compute_instance.main.boot_disk[0].initialize_params[0].image, "projects/debian-cloud/global/images/debian-12-bookworm-v")
    error_message = "the image is not one pinned Debian 12"
  }
}

run "spot_is_opted_in" {
  command = plan
  variables {
    spot = true
  }

  assert {
    condition     = google_compute_instance.main.scheduling[0].provisioning_model == "SPOT" && google_compute_instance.main.scheduling[0].on_host_maintenance == "TERMINATE"
    error_message = "spot = true does not make a spot machine"
  }
  assert {
    condition     = google_compute_instance.main.scheduling[0].max_run_duration[0].seconds == 7200 && google_compute_instance.main.scheduling[0].instance_termination_action == "DELETE"
    error_message = "a spot machine does not delete itself"
  }
}
