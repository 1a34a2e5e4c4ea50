output "host" {
  description = "How to reach the machine, and what it is."
  value = {
    address  = local.iap ? google_compute_instance.main.network_interface[0].network_ip : google_compute_instance.main.network_interface[0].access_config[0].nat_ip
    expires  = var.expires
    image    = var.image
    instance = google_compute_instance.main.name
    machine  = google_compute_instance.main.machine_type
    port     = 22
    project  = var.project
    ssh_via  = var.ssh_via
    user     = local.user
    zone     = google_compute_instance.main.zone
  }
}
