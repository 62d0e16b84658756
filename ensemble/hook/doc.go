// Package hook calls a command or a webhook when a service has issued products: serve.on_issue.
//
// Each initialisation has a record in a file beside the products (record.go), made before its products are published: which
// products were delivered last. Products with another identifier are to be delivered, so a service that was killed between
// publishing and calling delivers after its restart. The receiver gets each delivery at least once, with an identifier that
// is equal in all attempts. Deliveries run on a goroutine of their own (hook.go); publishing never waits for them.
package hook
