#!/bin/sh
# Make keys and certificates, once, and give the server and each site what is theirs.
set -eu

[ -e /authority/server.pem ] || fedeas certs --out /authority --name superlink --name proxy
fedeas certs --out /authority --node site-0 --node site-1 --node site-2

cd /authority
cp ca.crt server.pem server.key nodes/*.pub /etc/fedeas/
[ -e /etc/fedeas/superexec.secret ] || head -c 32 /dev/urandom > /etc/fedeas/superexec.secret
chmod 600 /etc/fedeas/server.key /etc/fedeas/superexec.secret
for number in 0 1 2; do
    cp ca.crt "/sites/$number/ca.crt"
    install -m 600 "nodes/site-$number" "/sites/$number/key"
done
