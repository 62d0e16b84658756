sed -i 's/epochs: 2/epochs: 1/' train.yaml
