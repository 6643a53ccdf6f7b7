vcl 4.1;
# Varnish keeps whole files, and sends them while they arrive. It waits for one request to the origin for each.
backend origin {
    .host = "@ORIGIN_HOST@";
    .port = "@ORIGIN_PORT@";
}
# Tried again if the origin fails before the answer has begun.
sub vcl_backend_response {
    if (beresp.status >= 500 && bereq.retries < 3) {
        return (retry);
    }
}
sub vcl_backend_error {
    if (bereq.retries < 3) {
        return (retry);
    }
}
