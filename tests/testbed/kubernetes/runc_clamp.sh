#!/bin/sh
# runc for a node on a machine whose root lacks CAP_SYS_RESOURCE, as in a container: it may not make
# a process less likely to be killed, which is what the kubelet asks for; so that becomes 0.
bundle='' before=''
for word in "$@"; do
    if [ "$before" = --bundle ]; then bundle=$word; fi
    before=$word
done
if [ -n "$bundle" ] && [ -f "$bundle/config.json" ]; then
    sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
fi
exec runc "$@"
