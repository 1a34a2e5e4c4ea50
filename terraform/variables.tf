variable "automatic_restart" {
  description = "Have Google start the machine again after a failure of its host; else it stays stopped, and is not deleted at its deadline."
  type        = bool
  default     = true
  nullable    = false
}

variable "expires" {
  description = "When Google deletes the machine, in UTC and as in its label, like 20261120t181500z. `make reap` uses it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^20[0-9]{6}t[0-9]{6}z$", var.expires)) && can(timeadd(replace(upper(var.expires), "/^(....)(..)(..T..)(..)(..Z)$/", "$1-$2-$3:$4:$5"), "0s"))
    error_message = "expires must be a time in UTC in a label's letters, like 20261120t181500z."
  }
}

variable "guest_attributes" {
  description = "Publish the host keys as guest attributes, beside the serial console. Some organisations forbid it."
  type        = bool
  default     = true
  nullable    = false
}

variable "hosts" {
  description = "What each machine is, by the host's name in the plan. One disk holds everything: toolchain, binaries, data, and the database under test. threads_per_core 1: each CPU is a core of its own, half as many for the same price."
  type = map(object({
    boot_disk_gb     = optional(number, 100)
    boot_disk_type   = optional(string, "pd-balanced")
    machine_type     = optional(string, "e2-standard-8")
    threads_per_core = optional(number, 2)
  }))
  default  = { host1 = {} }
  nullable = false

  validation {
    condition     = length(var.hosts) > 0 && alltrue([for name in keys(var.hosts) : can(regex("^host[1-9][0-9]{0,2}$", name))])
    error_message = "hosts must be named host1, host2 and so on, and there must be at least one."
  }
}

variable "image" {
  description = "Image of the boot disk: the one that the plan found in its family, since a family changes from run to run."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^projects/[a-z0-9.:-]+/global/images/[a-z][a-z0-9-]*$", var.image))
    error_message = "image must be the full name of one image, projects/PROJECT/global/images/NAME, and not of a family."
  }
}

variable "name" {
  description = "Name of everything that is made, and value of the label tsduel-run: tsduel-, then what tells runs apart."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^tsduel-[a-z0-9-]{0,47}[a-z0-9]$", var.name))
    error_message = "name must be tsduel- and at most 48 lower-case letters, digits and dashes, and must not end with a dash."
  }
}

variable "organisation" {
  description = "What an organisation asks for. With its network or subnetwork (a Shared VPC's) none is made, nor rules or NAT: those are its own. kms_key encrypts the disk; labels and tags (tagKeys/1 = tagValues/2) are added to machine and disk."
  type = object({
    kms_key    = optional(string)
    labels     = optional(map(string), {})
    network    = optional(string)
    subnetwork = optional(string)
    tags       = optional(map(string), {})
  })
  default  = {}
  nullable = false
}

variable "os_login" {
  description = "Log in by OS Login, where an organisation asks for it: the key is in the account's profile, not in the machine's metadata."
  type        = bool
  default     = false
  nullable    = false
}

variable "project" {
  description = "Project that pays."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project must be the project's ID (6 to 30 lower-case letters, digits and dashes), not its name or number: see `gcloud projects list`."
  }
}

variable "public_key" {
  description = "Public half of the SSH key pair that was made for this run alone, like \"ssh-ed25519 AAAA...\"."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^(ssh-ed25519|ecdsa-sha2-nistp256|ssh-rsa) [A-Za-z0-9+/]+=*( [^\\n]*)?$", var.public_key))
    error_message = "public_key must be one line of an OpenSSH public key file, like \"ssh-ed25519 AAAA... comment\"."
  }
}

variable "spot" {
  description = "Spot: about a third of the price, and Google may take the machine away in the middle of a run."
  type        = bool
  default     = false
  nullable    = false
}

variable "ssh_source_ranges" {
  description = "Networks from which SSH is let in, like [\"203.0.113.7/32\"]: yours. Nothing else is ever let in."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for range in var.ssh_source_ranges : can(cidrnetmask(range))])
    error_message = "ssh_source_ranges must be IPv4 networks like 203.0.113.7/32 (one address is a /32)."
  }
  validation {
    condition     = alltrue([for range in var.ssh_source_ranges : try(tonumber(split("/", range)[1]), 32) >= 8])
    error_message = "ssh_source_ranges would open SSH to the whole internet, or a large part of it: give your own address, like 203.0.113.7/32, or set ssh_via to iap."
  }
}

variable "ssh_via" {
  description = "How SSH gets in: to a public address, or through Google's Identity-Aware Proxy to a machine that has none."
  type        = string
  default     = "public"
  nullable    = false

  validation {
    condition     = contains(["iap", "public"], var.ssh_via)
    error_message = "ssh_via must be public or iap."
  }
}

variable "zones" {
  description = "Zone of each host; the network is in their region. A host that is not named here is not made: no zone has its machine at the moment."
  type        = map(string)
  default     = { host1 = "us-central1-a" }
  nullable    = false

  validation {
    condition     = length(var.zones) > 0 && alltrue([for zone in var.zones : can(regex("^[a-z]+-[a-z]+[0-9]+-[a-z]$", zone))])
    error_message = "zones must be names of zones, like us-central1-a: see `gcloud compute zones list`."
  }
  validation {
    condition     = length(distinct([for zone in var.zones : replace(zone, "/-[a-z]$/", "")])) == 1
    error_message = "zones must all be in one region, that of the network."
  }
}
