// Package tested has a test with a bare client.
package tested
