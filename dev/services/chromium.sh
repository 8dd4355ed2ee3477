# Chromium for the tests of the status page. It is not a service: nothing is started.

# chromium_path prints the path of Chromium, and obtains it from Debian if there is none.
chromium_path() {
  local name
  for name in chromium chromium-browser google-chrome; do
    command -v $name && return
  done
  apt_install chromium
  command -v chromium
}
