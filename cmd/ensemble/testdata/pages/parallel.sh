cat > machine.yaml <<'END'
version: 1
rank: {gflops: 1200, gb_s: 100}
node: {ranks: 4}
network: {latency_us: 2, gb_s: 12.5}
END
sed -i 's/epochs: 2/epochs: 1/' train.yaml
