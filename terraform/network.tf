locals {
  region = replace(values(var.zones)[0], "/-[a-z]$/", "")
  iap    = var.ssh_via == "iap"
  # An organisation's own network has its own rules, and its own way out.
  makes_network = var.organisation.network == null && var.organisation.subnetwork == null
}

resource "google_compute_network" "main" {
  count                   = local.makes_network ? 1 : 0
  name                    = var.name
  auto_create_subnetworks = false
  # A network has no labels; `make reap` reads this.
  description = "Made by tsduel for one run; expires ${var.expires}"

  timeouts {
    create = "4m"
    delete = "4m"
  }
}

resource "google_compute_subnetwork" "main" {
  count         = local.makes_network ? 1 : 0
  name          = var.name
  network       = google_compute_network.main[0].self_link
  region        = local.region
  ip_cidr_range = "10.84.28.0/24"

  timeouts {
    create = "4m"
    delete = "4m"
  }
}

# The only way in from outside. The network has no other rules, and denies everything else.
resource "google_compute_firewall" "ssh" {
  count       = local.makes_network ? 1 : 0
  name        = "${var.name}-ssh"
  network     = google_compute_network.main[0].self_link
  direction   = "INGRESS"
  target_tags = [var.name]
  # The range of the Identity-Aware Proxy.
  source_ranges = local.iap ? ["35.235.240.0/20"] : var.ssh_source_ranges

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }

  timeouts {
    create = "4m"
    delete = "4m"
  }

  lifecycle {
    precondition {
      condition     = local.iap || length(var.ssh_source_ranges) > 0
      error_message = "Nobody could log in: set ssh_source_ranges to your own address, like [\"203.0.113.7/32\"], or ssh_via to iap."
    }
  }
}

# A machine without a public address needs these to fetch packages and modules.
resource "google_compute_router" "main" {
  count   = local.makes_network && local.iap ? 1 : 0
  name    = "${var.name}-nat"
  network = google_compute_network.main[0].self_link
  region  = local.region

  timeouts {
    create = "4m"
    delete = "4m"
  }
}

resource "google_compute_router_nat" "main" {
  count                              = local.makes_network && local.iap ? 1 : 0
  name                               = "${var.name}-nat"
  router                             = google_compute_router.main[0].name
  region                             = local.region
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"

  timeouts {
    create = "4m"
    delete = "4m"
  }
}
