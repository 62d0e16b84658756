cat > machine.yaml <<'END'
rank: {gflops: 1200, gbs: 100}
node: {ranks: 4}
network: {latency_us: 2, gbs: 12.5}
END
sed -i 's/epochs: 2/epochs: 1/' train.yaml
