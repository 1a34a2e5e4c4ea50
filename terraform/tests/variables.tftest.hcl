# What is refused before anything is asked of Google.
mock_provider "google" {}

variables {
  name              = "tsduel-test-0a1b2c"
  project           = "some-project"
  public_key        = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLcdKGDC9xVpRvGgLrG5lFGIXmbqv6zsJx1LHUQ2yeA tsduel"
  expires           = "20261120t181500z"
  image             = "projects/debian-cloud/global/images/debian-12-bookworm-v20261006"
  ssh_source_ranges = ["203.0.113.7/32"]
}

run "a_shared_core_is_refused" {
  command = plan
  variables {
    hosts = { host1 = { machine_type = "e2-medium" } }
  }

  expect_failures = [var.hosts]
}

run "arm_is_refused" {
  command = plan
  variables {
    hosts = { host1 = { machine_type = "c4a-standard-8" } }
  }

  expect_failures = [var.hosts]
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

run "a_deadline_on_no_day_is_refused" {
  command = plan
  variables {
    expires = "20261340t181500z"
  }

  expect_failures = [var.expires]
}

run "four_threads_a_core_are_refused" {
  command = plan
  variables {
    hosts = { host1 = { threads_per_core = 4 } }
  }

  expect_failures = [var.hosts]
}

run "a_small_disk_is_refused" {
  command = plan
  variables {
    hosts = { host1 = { boot_disk_gb = 10 } }
  }

  expect_failures = [var.hosts]
}

run "a_slow_disk_is_refused" {
  command = plan
  variables {
    hosts = { host1 = { boot_disk_type = "pd-standard" } }
  }

  expect_failures = [var.hosts]
}

run "an_image_family_is_refused" {
  command = plan
  variables {
    image = "debian-cloud/debian-12"
  }

  expect_failures = [var.image]
}

run "a_deadline_that_no_label_holds_is_refused" {
  command = plan
  variables {
    expires = "2026-11-20T18:15:00Z"
  }

  expect_failures = [var.expires]
}

run "another_prefix_is_refused" {
  command = plan
  variables {
    name = "production"
  }

  expect_failures = [var.name]
}

run "a_projects_number_is_refused" {
  command = plan
  variables {
    project = "123456789012"
  }

  expect_failures = [var.project]
}

run "a_private_key_is_refused" {
  command = plan
  variables {
    public_key = "-----BEGIN OPENSSH PRIVATE KEY-----"
  }

  expect_failures = [var.public_key]
}

run "the_port_of_ssh_is_none_of_a_groups" {
  command = plan
  variables {
    ports_between = "0022-8528"
  }

  expect_failures = [var.ports_between]
}

run "one_port_is_no_range" {
  command = plan
  variables {
    ports_between = "8428"
  }

  expect_failures = [var.ports_between]
}

run "a_role_that_no_label_holds_is_refused" {
  command = plan
  variables {
    hosts = { host1 = { roles = ["Server 1"] } }
  }

  expect_failures = [var.hosts]
}

run "a_region_is_no_zone" {
  command = plan
  variables {
    zones = { host1 = "us-central1" }
  }

  expect_failures = [var.zones]
}

run "two_regions_are_refused" {
  command = plan
  variables {
    hosts = { host1 = {}, host2 = {} }
    zones = { host1 = "us-central1-a", host2 = "us-east1-b" }
  }

  expect_failures = [var.zones]
}

run "a_host_that_no_plan_has_is_refused" {
  command = plan
  variables {
    hosts = { bench = {} }
  }

  expect_failures = [var.hosts]
}
