output "hosts" {
  description = "How to reach each machine, and what it is."
  value = {
    for name, main in google_compute_instance.main : name => {
      address  = local.iap ? main.network_interface[0].network_ip : main.network_interface[0].access_config[0].nat_ip
      expires  = var.expires
      image    = var.image
      instance = main.name
      machine  = main.machine_type
      port     = 22
      project  = var.project
      ssh_via  = var.ssh_via
      user     = local.user
      zone     = main.zone
    }
  }
}
