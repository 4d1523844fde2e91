terraform {
  required_version = ">= 1.3.0"

  required_providers {
    helm = {
      source = "hashicorp/helm"
      # Versions before 2.5.0 cannot read OCI registries. Versions before 2.0.3 fail because CustomResourceDefinitions
      # stay after uninstalling.
      version = ">= 2.5.0, < 4.0.0"
    }
  }
}
