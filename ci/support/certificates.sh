#!/usr/bin/env bash
# Makes the certificates of one test in the folder that is given as its argument:
#
#   ca.pem                    an authority, which signs the certificates of the server and of the client
#   server.pem, server.key    for localhost and 127.0.0.1
#   client.pem, client.key
#   other.pem                 another authority, which signs nothing
set -euo pipefail

cd "$1"
cat >openssl.cnf <<'EOF'
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:true
[server]
subjectAltName = DNS:localhost, IP:127.0.0.1
[client]
extendedKeyUsage = clientAuth
EOF

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

authority() {
  key "$1"
  openssl req -x509 -new -config openssl.cnf -extensions authority -subj "/CN=$1" -days 2 -key "$1.key" -out "$1.pem"
}

signed() {
  key "$1"
  openssl req -new -config openssl.cnf -subj "/CN=$1" -key "$1.key" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -set_serial "$RANDOM" -days 2 \
    -extfile openssl.cnf -extensions "$1" -out "$1.pem" 2>/dev/null
}

authority ca
authority other
signed server
signed client
