resource "helm_release" "keyferry" {
  name             = var.name
  namespace        = var.namespace
  create_namespace = var.create_namespace

  chart      = coalesce(var.chart, "${path.module}/../helm/keyferry")
  repository = var.repository
  version    = var.chart_version
  values     = [yamlencode(var.values)]

  wait    = var.wait
  timeout = var.timeout
}
