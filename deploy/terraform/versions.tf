terraform {
  required_version = ">= 1.3.0"

  required_providers {
    helm = {
      source = "hashicorp/helm"
      # Older versions cannot read OCI registries (2.5.0), and call it an error that CustomResourceDefinitions stay (2.0.3).
      version = ">= 2.5.0, < 4.0.0"
    }
  }
}
