// Package minio has the S3 client of MinIO.
package minio

import (
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client, host string, creds *credentials.Credentials) (*minio.Client, error) {
	// drop-in
	api, err := minio.New(host, &minio.Options{Creds: creds, Region: "eu-central-1", Transport: sber, MaxRetries: 1})
	// end
	return api, err
}
