// Package page tests the page of resilient.Registry's Handler in a real browser, Debian's Chromium: make e2e-page.
package page
