terraform {
  # For the mocked providers of tests/; OpenTofu has them since 1.8.
  required_version = ">= 1.7"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
}
