ln -s "$PAGES"/../../../../experiments experiments
sed -i 's/epochs: 2/epochs: 1/' train.yaml
