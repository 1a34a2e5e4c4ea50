terraform {
  # For the mocked providers of tests/; OpenTofu has them since 1.8.
  required_version = ">= 1.7"
  required_providers {
    google = {
      source = "hashicorp/google"
      # 7.45 has been tried (with a fake Google). terraform/.terraform.lock.hcl, where there is one, says which exactly.
      version = ">= 7.40, < 8"
    }
  }
}
