sed -i 's/base: 4, stages: 2/base: 8, stages: 1/; s/epochs: 2/epochs: 4/' train.yaml
trained dense; trained a --set train.epochs=1; trained b --set train.epochs=1 --set train.seed=2; trained alone --set model.base=4
