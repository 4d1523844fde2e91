output "name" {
  description = "Name of the Helm release."
  value       = helm_release.keyferry.name
}

output "namespace" {
  description = "Namespace of the release."
  value       = helm_release.keyferry.namespace
}

output "chart_version" {
  description = "Version of the chart that is installed."
  value       = helm_release.keyferry.version
}
