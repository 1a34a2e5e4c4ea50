resource "google_compute_instance" "main" {
  name         = var.name
  machine_type = var.machine_type
  zone         = var.zone
  tags         = [var.name]
  labels = {
    expires    = var.expires
    tsduel-run = var.name
  }
  # No service_account block: nothing on this machine can act in the project.

  boot_disk {
    auto_delete = true
    initialize_params {
      image = var.image
      size  = var.boot_disk_gb
      type  = var.boot_disk_type
      labels = {
        expires    = var.expires
        tsduel-run = var.name
      }
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.main.self_link
    dynamic "access_config" {
      for_each = local.iap ? [] : [0]
      content {
        network_tier = "PREMIUM"
      }
    }
  }

  metadata = {
    # Project-wide keys and OS Login would let others in, and the latter would keep this run's key out.
    block-project-ssh-keys = "TRUE"
    enable-oslogin         = "FALSE"
    # So that the machine's host keys can be asked for through the API, before the first connection.
    enable-guest-attributes = "TRUE"
    ssh-keys                = "${local.user}:${var.public_key}"
  }

  # It deletes itself: this clock is Google's, and runs whatever becomes of the machine that started it.
  scheduling {
    provisioning_model          = var.spot ? "SPOT" : "STANDARD"
    preemptible                 = var.spot
    automatic_restart           = false
    on_host_maintenance         = var.spot ? "TERMINATE" : "MIGRATE"
    instance_termination_action = "DELETE"
    max_run_duration {
      seconds = var.lifetime_s
    }
  }

  shielded_instance_config {
    enable_integrity_monitoring = true
    enable_secure_boot          = true
    enable_vtpm                 = true
  }

  timeouts {
    create = "10m"
    delete = "10m"
  }
}

locals {
  user = "tsduel"
}
