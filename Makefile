# Skep's commands. `make help` lists them.
SHELL := bash
export CGO_ENABLED := 0
export GOFLAGS := -trimpath
.PHONY: help build demo test race lint bench gen

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

build: ## build bin/skep, one static binary
	go build -o bin/skep ./cmd/skep

demo: build ## load real data into four regions and query it
	./bin/skep demo

test: ## run all tests
	go test ./...

race: ## run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -short ./...

lint: ## gofmt, go vet and staticcheck
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt -w these: $$out" >&2; exit 1; }
	go vet ./...
	go build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck && ./bin/staticcheck ./...

bench: build ## generate 5 M rows and measure load, filter and group-by beside DuckDB (needs a C compiler)
	go run ./bench

gen: ## write the generated files again
	go generate ./...
