# syntax=docker/dockerfile:1

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags grpcnotrace -buildvcs=false \
    -ldflags "-s -w -X github.com/outbox-relay/outbox-relay/cli.version=$VERSION -X github.com/outbox-relay/outbox-relay/cli.commit=$COMMIT" \
    -o /outbox-relay .

# The sample application of docker-compose.yml: psql, and the relay for the DDL it prints.
FROM postgres:18-alpine AS sample-app
COPY --from=build /outbox-relay /usr/local/bin/
COPY dev/compose/ /app/
USER postgres
CMD ["/app/app.sh"]

# The image to ship. It is last, so that it is what a plain `docker build` makes.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /outbox-relay /
USER 65532:65532
EXPOSE 9630
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/outbox-relay", "healthcheck"]
ENTRYPOINT ["/outbox-relay"]
CMD ["run"]
ARG VERSION=dev COMMIT=unknown
LABEL org.opencontainers.image.title="outbox-relay" \
      org.opencontainers.image.description="Publishes the rows of a transactional outbox table to Kafka, NATS JetStream or RabbitMQ" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
