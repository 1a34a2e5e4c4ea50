# Credentials come from the environment: tsduel/places/gcp sets GOOGLE_OAUTH_ACCESS_TOKEN.
provider "google" {
  project = var.project
  region  = local.region
}
