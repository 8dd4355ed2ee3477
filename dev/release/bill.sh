#!/usr/bin/env bash
# Prints the bill of materials of a binary, CycloneDX in JSON: the modules that the linker has recorded in it.
#
#   VERSION=0.1.0 AT=2026-01-02T03:04:05Z dev/release/bill.sh BINARY
set -euo pipefail
sum=$(sha256sum <"$1" | cut -d' ' -f1)
# A UUID of version 8, whose bits are free: the same binary always has the same number.
serial=${sum:0:8}-${sum:8:4}-8${sum:13:3}-8${sum:17:3}-${sum:20:12}
go version -m -json "$1" | jq --arg version "v$VERSION" --arg at "$AT" --arg sum "$sum" --arg serial "$serial" '
  def part(kind; path; version):
    "pkg:golang/\(path)@\(version | gsub("\\+"; "%2B"))" as $url
    | {"bom-ref": $url, type: kind, name: path, version: version, purl: $url};
  [ part("library"; "std"; .GoVersion | ltrimstr("go")),
    (.Deps[] | (.Replace // .) | part("library"; .Path; .Version)) ] as $libraries
  | part("application"; .Main.Path; $version) as $main
  | {
      "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
      bomFormat: "CycloneDX", specVersion: "1.6", serialNumber: "urn:uuid:\($serial)", version: 1,
      metadata: {
        timestamp: $at,
        component: ($main + {
          hashes: [{alg: "SHA-256", content: $sum}], licenses: [{license: {id: "Apache-2.0"}}]
        })
      },
      components: $libraries,
      dependencies: [{ref: $main["bom-ref"], dependsOn: [$libraries[]["bom-ref"]]}]
    }'
