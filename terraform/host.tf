resource "google_compute_instance" "main" {
  # No zone has a machine for a host without a zone.
  for_each     = { for name, host in var.hosts : name => host if contains(keys(var.zones), name) }
  name         = "${var.name}-${each.key}"
  machine_type = each.value.machine_type
  zone         = var.zones[each.key]
  tags         = [var.name]
  labels = merge(
    var.organisation.labels,
    {
      expires    = var.expires
      tsduel-run = var.name
    },
  )
  # No service_account block: nothing on this machine can act in the project.

  boot_disk {
    auto_delete       = true
    kms_key_self_link = var.organisation.kms_key
    initialize_params {
      image = var.image
      size  = each.value.boot_disk_gb
      type  = each.value.boot_disk_type
      labels = merge(var.organisation.labels, {
        expires    = var.expires
        tsduel-run = var.name
      })
      resource_manager_tags = length(var.organisation.tags) > 0 ? var.organisation.tags : null
    }
  }

  network_interface {
    network    = var.organisation.network
    subnetwork = local.makes_network ? google_compute_subnetwork.main[0].self_link : var.organisation.subnetwork
    dynamic "access_config" {
      for_each = local.iap ? [] : [0]
      content {
        network_tier = "PREMIUM"
      }
    }
  }

  metadata = merge(
    {
      # Project-wide keys would let other people in.
      block-project-ssh-keys = "TRUE"
      # TRUE: the run's key is in the profile of the account. FALSE: else OS Login would refuse the run's key.
      enable-oslogin = var.os_login ? "TRUE" : "FALSE"
      # The host keys, which are read through the API before the first connection.
      startup-script = "#!/bin/sh\ncut -d' ' -f1,2 /etc/ssh/ssh_host_*_key.pub | sed 's/^/tsduel-host-key /' >/dev/ttyS0\n"
    },
    # As guest attributes Google's guest agent publishes the keys, too.
    var.guest_attributes ? { enable-guest-attributes = "TRUE" } : {},
    var.os_login ? {} : { ssh-keys = "${local.user}:${var.public_key}" },
  )

  # Google deletes the machine at this time, but only if it runs. So Google restarts it after a failure of its host (never a
  # spot machine). A duration in place of the time would begin again then.
  scheduling {
    provisioning_model = var.spot ? "SPOT" : "STANDARD"
    preemptible        = var.spot
    automatic_restart  = var.automatic_restart && !var.spot
    # Bare metal, GPUs, H4D and X4 cannot be moved while they run; E2 takes nothing else.
    on_host_maintenance         = var.spot || can(regex("^(h4d|x4|g[0-9]|a[0-9])|-metal$", each.value.machine_type)) ? "TERMINATE" : "MIGRATE"
    instance_termination_action = "DELETE"
    termination_time            = local.termination_time
  }

  dynamic "params" {
    for_each = length(var.organisation.tags) > 0 ? [1] : []
    content {
      resource_manager_tags = var.organisation.tags
    }
  }

  dynamic "advanced_machine_features" {
    for_each = each.value.threads_per_core == 1 ? [1] : []
    content {
      threads_per_core = 1
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

  lifecycle {
    # Google may write the same time in another form, and Terraform would stop the machine to change it. What Google
    # has taken of it is read through the API after each apply.
    ignore_changes = [scheduling]
  }
}

locals {
  user = "tsduel"
  # 20261120t181500z as 2026-11-20T18:15:00Z.
  termination_time = replace(upper(var.expires), "/^(....)(..)(..T..)(..)(..Z)$/", "$1-$2-$3:$4:$5")
}
