trap - EXIT TERM INT HUP USR1 XCPU
ecflow_client --complete
exit 0
