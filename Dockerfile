# The image of Keyferry, with a container engine:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg KEYFERRY_COMMIT="$(git rev-parse HEAD)" -t keyferry:0.1.0 .
#
# `npm run image` makes the same without one, and the same bytes each time. A test compares the two: change both.

# The version that package.json pins.
ARG NODE_IMAGE=node:24.21.0-bookworm-slim
# libc, libgcc, libstdc++ and CA certificates; no shell and no package manager.
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot

# On the machine that builds: its files are the same for every architecture.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
ARG KEYFERRY_COMMIT=
RUN npm run build && node scripts/image-app.ts /image

FROM ${NODE_IMAGE} AS node

# For the architecture of the image. Nothing runs here, so no emulation is necessary.
FROM ${RUNTIME_IMAGE}
ARG KEYFERRY_COMMIT=
LABEL org.opencontainers.image.title="keyferry" \
      org.opencontainers.image.description="Copies Secrets and ConfigMaps between namespaces and clusters, and Secrets to and from Vault" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${KEYFERRY_COMMIT}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/keyferry/keyferry"
ENV PATH="/usr/local/bin" \
    HOME="/home/nonroot" \
    SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt"
COPY --from=node /usr/local/LICENSE /usr/share/doc/node/copyright
COPY --from=node /usr/local/bin/node /usr/local/bin/node
# The bundle in /app, and the links to it: /usr/local/bin/keyferry, /manager, /k8s-replicator, …
COPY --from=build /image /
USER 65532:65532
WORKDIR /home/nonroot
ENTRYPOINT ["/usr/local/bin/keyferry"]
