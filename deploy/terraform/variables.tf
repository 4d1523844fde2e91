variable "name" {
  description = "Name of the Helm release."
  type        = string
  default     = "keyferry"
}

variable "namespace" {
  description = "Namespace of the release."
  type        = string
  default     = "keyferry"
}

variable "create_namespace" {
  description = "Create the namespace if it does not exist. Terraform does not delete it."
  type        = bool
  default     = true
}

variable "chart" {
  description = "Path of the chart, or its name in the repository. Default: the chart beside this module."
  type        = string
  default     = null
}

variable "repository" {
  description = "Repository of the chart, for example oci://registry.example.com/charts. Not used for a path."
  type        = string
  default     = null
}

variable "chart_version" {
  description = "Version of the chart in the repository. Default: the newest."
  type        = string
  default     = null
}

variable "values" {
  description = "Values of the chart, as in deploy/helm/keyferry/values.yaml. A value that the chart does not know is an error."
  type        = any
  default     = {}
}

variable "wait" {
  description = "Wait until all replicas are ready."
  type        = bool
  default     = true
}

variable "timeout" {
  description = "How long to wait, in seconds."
  type        = number
  default     = 300
}
