// Package s3 has the S3 client of aws-sdk-go-v2.
package s3

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/resilient-go/resilient"
)

func connect(sber *resilient.Client, cfg aws.Config) *s3.Client {
	// drop-in
	api := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient, o.Retryer = sber, aws.NopRetryer{}
	})
	// end
	return api
}
