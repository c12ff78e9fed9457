"""From a Call to its decoded data: admission, one HTTP exchange, retries."""
