# Installing what a native service needs. Only package registries are asked: Debian's and Maven's
# here, Go's by way of the modules in dev/tools/.

# apt_install PACKAGE... installs Debian packages and keeps them from starting services of their own.
apt_install() (
  policy=/usr/sbin/policy-rc.d
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "$1 is missing. Install it (on Debian: sudo apt-get install --no-install-recommends $*), start Docker, or give the service's TEST_ variable"
  fi
  say "installing $* (apt, log in $LOGS/apt.log)"
  if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
  fi
  exec >"$LOGS/apt.log" 3>&2 2>&1 9>&- </dev/null
  apt-get update -qq || true # an index from before may do
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" || {
    tail -n 5 "$LOGS/apt.log" >&3
    exit 1
  }
)

# java_17 reports whether there is a Java that Kafka 4 runs on.
java_17() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ]
}

# java_install: the default Java of older distributions is too old, newer ones may lack 17.
java_install() {
  java_17 && return
  if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
    apt_install openjdk-17-jre-headless
  else
    apt_install default-jre-headless
  fi
  java_17 || die "Kafka needs Java 17 or newer as 'java' on the PATH"
}

# maven_install COORDINATES... DIRECTORY copies artifacts with what they need to run into DIRECTORY.
maven_install() {
  local directory=${!#} artifact group name version
  command -v mvn >/dev/null || apt_install maven
  mkdir -p "$directory"
  {
    echo '<project><modelVersion>4.0.0</modelVersion><packaging>pom</packaging>'
    echo '<groupId>outbox-relay</groupId><artifactId>services</artifactId><version>1</version><dependencies>'
    for artifact in "${@:1:$#-1}"; do
      IFS=: read -r group name version <<<"$artifact"
      echo "<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
    done
    echo '</dependencies></project>'
  } >"$directory/pom.xml"
  (cd "$directory" && mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$directory" </dev/null >"$LOGS/maven.log" 2>&1 9>&-) || {
    tail -n 5 "$LOGS/maven.log" >&2
    die "maven failed, see $LOGS/maven.log"
  }
}
