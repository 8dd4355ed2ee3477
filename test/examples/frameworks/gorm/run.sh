# Runs docs/frameworks/gorm.md.
mkdir -p shop main && mv orders.go shop/
cat >go.mod <<MOD
module sample
go 1.26.0
require github.com/outbox-relay/outbox-relay v0.0.0
replace github.com/outbox-relay/outbox-relay => $CHECKOUT
MOD
cat >main/main.go <<'GO'
package main

import (
	"context"
	"log"
	"os"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"sample/shop"
)

func main() {
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := shop.PlaceOrder(context.Background(), db, "ada", 4200); err != nil {
		log.Fatal(err)
	}
	if shop.PlaceOrder(context.Background(), db, "mallory", 1) == nil {
		log.Fatal("no error")
	}
}
GO
GOFLAGS=-mod=mod go run ./main
