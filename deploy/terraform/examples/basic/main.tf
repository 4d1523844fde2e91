# SecretMirrors only, with an image in a registry of your own.
#
# The provider finds the cluster by the variable KUBE_CONFIG_PATH. Its documentation has other ways.

variable "image" {
  description = "The image without its tag."
  type        = string
  default     = "registry.example.com/keyferry"
}

variable "wait" {
  description = "Wait until all replicas are ready."
  type        = bool
  default     = true
}

module "keyferry" {
  source = "../.."

  namespace = "secrets"
  wait      = var.wait

  values = {
    image = {
      repository = var.image
      tag        = "0.1.0"
    }
    vault = {
      addresses = ["https://*.vault.svc:8200"]
    }
  }
}

output "chart_version" {
  description = "Version of the chart that is installed."
  value       = module.keyferry.chart_version
}
