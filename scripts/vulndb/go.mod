// The vulnerability database that `make vulnerabilities` compares with: files of data/osv. Nothing imports it. A newer one:
//
//	go -C scripts/vulndb get golang.org/x/vulndb@latest
module github.com/ensemble-weather/ensemble/scripts/vulndb

go 1.26.0

require golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018
