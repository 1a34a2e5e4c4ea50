# Credentials come from the environment, never from a file in here: GOOGLE_OAUTH_ACCESS_TOKEN, as tsduel/gcp sets it.
provider "google" {
  project = var.project
  region  = local.region
}
