mkdir -p runs/demo-data; sed 's/fc\//..\/..\/fc\//; s/an\//..\/..\/an\//' train.yaml > runs/demo-data/train.yaml
