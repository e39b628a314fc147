/**
 * Options of programs, by their `--help`: harmless ones, and those that write, read or run files, or change what a
 * program reaches. Any unlisted option needs approval, so that a newer version allows nothing more. A test compares
 * them with the installed programs. An option is its short letter and its long names, joined by commas. `=` after a
 * harmless letter marks one whose value may follow in the same word.
 */
export interface JudgedOptions {
  readonly effects: string;
  readonly harmless: string;
  /** Options that read a file if their value begins with `@`. */
  readonly readsAt?: string;
}

export const JUDGED_OPTIONS: Readonly<Record<string, JudgedOptions>> = {
  make: {
    effects: "E,eval f,file,makefile C,directory I,include-dir",
    harmless:
      "b,m B,always-make d debug e,environment-overrides h,help i,ignore-errors j=,jobs k,keep-going " +
      "l=,load-average,max-load L,check-symlink-times n,just-print,dry-run,recon o=,old-file,assume-old " +
      "O=,output-sync p,print-data-base q,question r,no-builtin-rules R,no-builtin-variables s,silent,quiet " +
      "no-silent S,no-keep-going,stop t,touch trace v,version w,print-directory no-print-directory " +
      "W=,what-if,new-file,assume-new warn-undefined-variables",
  },
  tar: {
    effects: "to-command checkpoint-action I,use-compress-program rsh-command rmt-command " +
      "F,info-script,new-volume-script P,absolute-names T,files-from X,exclude-from index-file C,directory " +
      "f,file g,listed-incremental one-top-level add-file remove-files recursive-unlink volno-file " +
      "owner-map group-map transform,xform M,multi-volume keep-directory-symlink",
    harmless: "A,catenate,concatenate c,create delete d,diff,compare r,append test-label t,list u,update " +
      "x,extract,get check-device G,incremental hole-detection ignore-failed-read level no-check-device " +
      "no-seek n,seek occurrence sparse-version S,sparse exclude exclude-backups exclude-caches " +
      "exclude-caches-all exclude-caches-under exclude-ignore exclude-ignore-recursive exclude-tag " +
      "exclude-tag-all exclude-tag-under exclude-vcs exclude-vcs-ignores no-null no-recursion no-unquote " +
      "no-verbatim-files-from null recursion unquote verbatim-files-from anchored ignore-case no-anchored " +
      "no-ignore-case no-wildcards no-wildcards-match-slash wildcards wildcards-match-slash " +
      "keep-newer-files k,keep-old-files no-overwrite-dir overwrite overwrite-dir skip-old-files " +
      "U,unlink-first W,verify ignore-command-error no-ignore-command-error O,to-stdout atime-preserve " +
      "clamp-mtime delay-directory-restore group mode mtime m,touch no-delay-directory-restore " +
      "no-same-owner no-same-permissions numeric-owner owner p,preserve-permissions,same-permissions " +
      "same-owner sort s,preserve-order,same-order acls no-acls no-selinux no-xattrs selinux xattrs " +
      "xattrs-exclude xattrs-include force-local L=,tape-length b=,blocking-factor B,read-full-records " +
      "i,ignore-zeros record-size H=,format old-archive,portability pax-option posix V=,label " +
      "a,auto-compress j,bzip2 J,xz lzip lzma lzop no-auto-compress zstd z,gzip,gunzip,ungzip " +
      "Z,compress,uncompress backup hard-dereference h,dereference K=,starting-file newer-mtime " +
      "N=,newer,after-date one-file-system suffix strip-components checkpoint full-time l,check-links " +
      "no-quote-chars quote-chars quoting-style R,block-number show-defaults show-omitted-dirs " +
      "show-snapshot-field-ranges show-transformed-names,show-stored-names totals utc v,verbose warning " +
      "w,interactive,confirmation o help restrict usage version",
  },
  curl: {
    effects:
      "o,output O,remote-name remote-name-all K,config T,upload-file d,data data-ascii data-binary data-raw " +
      "data-urlencode F,form form-string json c,cookie-jar b,cookie D,dump-header trace trace-ascii stderr " +
      "n,netrc netrc-file netrc-optional E,cert key proxy-cert proxy-key x,proxy preproxy proxy1.0 socks4 " +
      "socks4a socks5 socks5-hostname unix-socket abstract-unix-socket etag-save etag-compare libcurl " +
      "output-dir create-dirs ftp-create-dirs J,remote-header-name hsts alt-svc w,write-out url-query " +
      "engine egd-file random-file cacert capath crlfile proxy-cacert proxy-capath proxy-crlfile pubkey " +
      "pinnedpubkey proxy-pinnedpubkey Q,quote X,request proto-default metalink a,append variable",
    harmless:
      "anyauth aws-sigv4 basic cert-status cert-type ciphers compressed compressed-ssh connect-timeout " +
      "connect-to C=,continue-at create-file-mode crlf curves delegation digest q,disable disable-eprt " +
      "disable-epsv disallow-username-in-url dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers " +
      "doh-cert-status doh-insecure doh-url expect100-timeout f,fail fail-early fail-with-body false-start " +
      "form-escape ftp-account ftp-alternative-to-user ftp-method ftp-pasv P=,ftp-port ftp-pret " +
      "ftp-skip-pasv-ip ftp-ssl-ccc ftp-ssl-ccc-mode ftp-ssl-control G,get g,globoff " +
      "happy-eyeballs-timeout-ms haproxy-protocol I,head h=,help hostpubmd5 hostpubsha256 http0.9 0,http1.0 " +
      "http1.1 http2 http2-prior-knowledge http3 http3-only ignore-content-length i,include k,insecure " +
      "interface 4,ipv4 6,ipv6 j,junk-session-cookies keepalive-time key-type krb limit-rate l,list-only " +
      "local-port L,location location-trusted login-options mail-auth mail-from mail-rcpt " +
      "mail-rcpt-allowfails M,manual max-filesize max-redirs m=,max-time negotiate next no-alpn N,no-buffer " +
      "no-clobber no-keepalive no-npn no-progress-meter no-sessionid noproxy ntlm ntlm-wb oauth2-bearer " +
      "Z,parallel parallel-immediate parallel-max pass path-as-is post301 post302 post303 #,progress-bar " +
      "proto proto-redir proxy-anyauth proxy-basic proxy-cert-type proxy-ciphers proxy-digest " +
      "proxy-insecure proxy-key-type proxy-negotiate proxy-ntlm proxy-pass proxy-service-name " +
      "proxy-ssl-allow-beast proxy-ssl-auto-client-cert proxy-tls13-ciphers proxy-tlsauthtype " +
      "proxy-tlspassword proxy-tlsuser proxy-tlsv1 U=,proxy-user p,proxytunnel r=,range rate raw e=,referer " +
      "R,remote-time remove-on-error request-target resolve retry retry-all-errors retry-connrefused " +
      "retry-delay retry-max-time sasl-authzid sasl-ir service-name S,show-error s,silent socks5-basic " +
      "socks5-gssapi socks5-gssapi-nec socks5-gssapi-service Y=,speed-limit y=,speed-time ssl " +
      "ssl-allow-beast ssl-auto-client-cert ssl-no-revoke ssl-reqd ssl-revoke-best-effort 2,sslv2 3,sslv3 " +
      "styled-output suppress-connect-headers tcp-fastopen tcp-nodelay t=,telnet-option tftp-blksize " +
      "tftp-no-options z=,time-cond tls-max tls13-ciphers tlsauthtype tlspassword tlsuser 1,tlsv1 tlsv1.0 " +
      "tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace-time url B,use-ascii u=,user A=,user-agent v,verbose " +
      "V,version xattr",
    readsAt: "H,header proxy-header",
  },
  wget: {
    effects:
      "O,output-document o,output-file a,append-output P,directory-prefix i,input-file post-file post-data " +
      "body-file body-data method e,execute config use-askpass ask-password save-cookies load-cookies " +
      "hsts-file rejected-log certificate private-key ca-certificate ca-directory crl-file pinnedpubkey " +
      "warc-file warc-tempdir warc-dedup warc-cdx b,background trust-server-names content-disposition",
    harmless:
      "V,version h,help d,debug q,quiet v,verbose n=,no-verbose report-speed F,force-html B=,base no-config " +
      "t=,tries retry-connrefused retry-on-http-error no-clobber no-netrc c,continue start-pos progress " +
      "show-progress N,timestamping no-if-modified-since no-use-server-timestamps S,server-response spider " +
      "T=,timeout dns-timeout connect-timeout read-timeout w=,wait waitretry random-wait no-proxy Q=,quota " +
      "bind-address limit-rate no-dns-cache restrict-file-names ignore-case 4,inet4-only 6,inet6-only " +
      "prefer-family user password no-iri local-encoding remote-encoding unlink xattr no-directories " +
      "x,force-directories no-host-directories protocol-directories cut-dirs http-user http-password " +
      "no-cache default-page E,adjust-extension ignore-length header compression max-redirect proxy-user " +
      "proxy-password referer save-headers U=,user-agent no-http-keep-alive no-cookies keep-session-cookies " +
      "content-on-error auth-no-challenge secure-protocol https-only no-check-certificate certificate-type " +
      "private-key-type ciphers no-hsts ftp-user ftp-password no-remove-listing no-glob no-passive-ftp " +
      "preserve-permissions retr-symlinks ftps-implicit ftps-resume-ssl ftps-clear-data-connection " +
      "ftps-fallback-to-ftp warc-header warc-max-size no-warc-compression no-warc-digests no-warc-keep-log " +
      "r,recursive l=,level delete-after k,convert-links convert-file-only backups K,backup-converted " +
      "m,mirror p,page-requisites strict-comments A=,accept R=,reject accept-regex reject-regex regex-type " +
      "D=,domains exclude-domains follow-ftp follow-tags ignore-tags H,span-hosts L,relative " +
      "I=,include-directories X=,exclude-directories no-parent",
  },
  rsync: {
    effects:
      "e,rsh rsync-path files-from exclude-from include-from f,filter F daemon config dparam log-file " +
      "password-file early-input M,remote-option write-batch only-write-batch read-batch backup-dir " +
      "T,temp-dir partial-dir compare-dest copy-dest link-dest remove-source-files remove-sent-files del " +
      "delete delete-before delete-during delete-delay delete-after delete-excluded delete-missing-args " +
      "super fake-super copy-devices write-devices K,keep-dirlinks L,copy-links copy-unsafe-links " +
      "k,copy-dirlinks insecure-links trust-sender old-args copy-as confine-root C,cvs-exclude server " +
      "sender",
    harmless:
      "v,verbose info debug stderr q,quiet no-motd c,checksum a,archive no-recursive no-links no-perms " +
      "no-times no-owner no-group no-devices no-specials no-relative no-compress r,recursive " +
      "inc-recursive,i-r no-inc-recursive no-i-r R,relative no-implied-dirs b,backup suffix u,update " +
      "inplace append append-verify d,dirs old-dirs old-d mkpath l,links safe-links munge-links " +
      "H,hard-links p,perms E,executability chmod A,acls X,xattrs o,owner g,group devices specials drop-D D " +
      "t,times U,atimes open-noatime N,crtimes O,omit-dir-times J,omit-link-times S,sparse preallocate " +
      "n,dry-run W,whole-file no-whole-file,no-W checksum-choice x,one-file-system B=,block-size existing " +
      "ignore-non-existing ignore-existing ignore-missing-args ignore-errors force max-delete max-size " +
      "min-size max-alloc partial delay-updates m,prune-empty-dirs numeric-ids usermap groupmap chown " +
      "timeout contimeout I,ignore-times size-only modify-window y,fuzzy z,compress compress-choice " +
      "compress-level compress-threads skip-compress exclude include 0,from0 s,secluded-args address port " +
      "sockopts blocking-io outbuf stats 8,8-bit-output h,human-readable progress P i,itemize-changes " +
      "out-format log-file-format list-only bwlimit stop-after stop-at fsync protocol iconv checksum-seed " +
      "4,ipv4 6,ipv6 V,version help",
  },
  npm: {
    effects: "c,call C,prefix g,global L,location reg,registry script-shell shell userconfig globalconfig " +
      "node-options git editor viewer browser init-module init.module nodedir node-gyp cafile ca cert key " +
      "replace-registry-host https-proxy proxy cache pack-destination logs-dir provenance-file " +
      "local-address allow-directory allow-file allow-git allow-remote allow-scripts " +
      "dangerously-allow-all-scripts package commit-hooks sign-git-commit sign-git-tag no-ignore-scripts ignore-scripts",
    harmless: "a,all d dd ddd D,save-dev B,save-bundle E,save-exact h,H,help,usage l,long m=,message " +
      "O,save-optional p,parseable P,save-prod q s S,save v,version ws,workspaces y,yes f,force " +
      "desc,description json omit-lockfile-registry-resolved fund audit update-notifier access " +
      "allow-same-version also audit-level auth-type before bin-links bypass-2fa cache-max cache-min cidr " +
      "color cpu depth dev diff diff-ignore-all-space diff-name-only diff-no-prefix diff-dst-prefix " +
      "diff-src-prefix diff-text diff-unified dry-run engine-strict expect-result-count expect-results " +
      "expires fetch-retries fetch-retry-factor fetch-retry-maxtimeout fetch-retry-mintimeout fetch-timeout " +
      "foreground-scripts format-package-lock git-tag-version global-style heading if-present include " +
      "include-staged include-workspace-root include-attestations init-author-email init-author-name " +
      "init-author-url init-license init-type init-version init-private init.author.email init.author.name " +
      "init.author.url init.license init.version install-links install-strategy legacy-bundling " +
      "legacy-peer-deps libc link lockfile-version loglevel logs-max maxsockets min-release-age " +
      "min-release-age-exclude name noproxy offline omit only orgs optional os otp package-lock " +
      "package-lock-only packages parseable allow-scripts-pending allow-scripts-pin prefer-dedupe " +
      "prefer-offline prefer-online preid production progress provenance read-only rebuild-bundle save-peer " +
      "save-prefix sbom-format sbom-type scope scopes packages-all packages-and-scopes-permission " +
      "orgs-permission token-description searchexclude searchlimit searchopts searchstaleness shrinkwrap " +
      "strict-peer-deps strict-allow-scripts strict-ssl tag tag-version-prefix timing umask unicode " +
      "user-agent versions which w=,workspace workspaces-update npm-version silent verbose quiet no",
  },
  ssh: {
    effects: "A B D E F I J K L M O Q R S W X Y b e g i o s w",
    harmless: "4 6 C G N T V a c= f k l= m= n p= q t v x y",
  },
  find: {
    effects: "exec execdir ok okdir delete fprint fprint0 fprintf fls files0-from L follow",
    harmless:
      "H P D= O= amin= anewer= atime= cmin= cnewer= context= ctime= empty false fstype= gid= group= ilname= " +
      "iname= inum= iwholename= iregex= links= lname= mmin= mtime= name= newer= nouser nogroup path= perm= " +
      "regex= readable writable executable wholename= size= true type= uid= used= user= xtype= print0 " +
      "printf= print ls prune quit help version depth d maxdepth= mindepth= mount noleaf xdev xautofs " +
      "ignore_readdir_race noignore_readdir_race daystart regextype= warn nowarn not a and o or samefile= " +
      "ipath= newermt= newerct= newerat= newerXY=",
  },
};

/** Long options of git's subcommands that write, read or run files. */
export const GIT_EFFECTS: string =
  "output output-directory separate-git-dir build-fake-ancestor unsafe-paths expire-to no-index " +
  "contents file pathspec-from-file template reference reference-if-able ignore-revs-file exclude-from " +
  "exclude-per-directory signature-file add-file ext-diff textconv filters upload-pack receive-pack " +
  "exec exec-path open-files-in-pager config config-env paginate show-signature extcmd tool edit " +
  "gpg-sign strategy verify-signatures sign local-user signed edit-description edit-todo interactive " +
  "reedit-message gui web git-dir work-tree namespace super-prefix attr-source bundle-uri fsmonitor " +
  "prefix index-output";

/** Letters of such short options, by subcommand. */
export const GIT_LETTERS: Readonly<Record<string, string>> = {
  ...{
    add: "ie",
    am: "iS",
    archive: "o",
    blame: "S",
    "cherry-pick": "eS",
    clean: "i",
    clone: "uc",
    commit: "FcteS",
  },
  ...{ diff: "O", difftool: "gtxO", "format-patch": "oO", grep: "Of", help: "wc", log: "O", "ls-files": "X" },
  ...{
    merge: "esFS",
    notes: "Fc",
    pull: "sS",
    rebase: "iSxs",
    replace: "e",
    revert: "eS",
    show: "O",
    stash: "O",
  },
  ...{
    tag: "Fesu",
    "diff-tree": "O",
    "diff-index": "O",
    "diff-files": "O",
    "range-diff": "O",
    whatchanged: "O",
  },
};

/** Harmless long options of git's subcommands. */
export const GIT_HARMLESS: string =
  "deref dual-color hardlinks name post-rewrite prompt renames 3way abbrev abbrev-commit abort add add-header add-virtual-file after after-context again aggressive " +
  "ahead-behind aliases all all-match all-progress all-progress-implied allow-empty allow-empty-message " +
  "allow-overlap allow-unknown-type allow-unrelated-histories also-filter-submodules alternate-refs " +
  "always amend ancestry-path anchored and annotate annotate-stdin append apply assume-unchanged atomic " +
  "attach author author-date-order auto auto-gc auto-maintenance autosquash autostash bare base " +
  "basic-regexp batch batch-all-objects batch-check batch-command before before-context binary bisect " +
  "bisect-all bisect-vars boundary branch branches break break-rewrites broken buffer cache cached " +
  "cacheinfo candidates cc check checkout cherry cherry-mark cherry-pick children chmod cleanup " +
  "clear-decorations clear-resolve-undo color color-by-age color-lines color-moved color-moved-ws " +
  "color-words column combined-all-paths commit committer committer-date-is-author-date compact-summary " +
  "conflict connectivity-only contains context continue convert-graft-file copy count " +
  "cover-from-description cover-letter create create-reflog creation-factor cruft cruft-expiration " +
  "cumulative current dangling date date-order debug decorate decorate-refs decorate-refs-exclude " +
  "deduplicate deepen default-prefix delete deleted delta-islands dense depth dereference detach " +
  "developer-interfaces diff-algorithm diff-filter diff-merges dir-diff directory dirstat " +
  "dirstat-by-file dirty discard-changes disk-usage dissociate dry-run dst-prefix email empty " +
  "empty-directory encoding eol error-unmatch exact-match exclude exclude-existing exclude-hidden " +
  "exclude-promisor-objects exclude-standard exit-code expand-tabs expire expire-unreachable ext-grep " +
  "extended-regexp external-commands ff ff-only filename-max-length files-with-matches " +
  "files-without-match filter find-copies find-copies-harder find-object find-renames first-parent " +
  "fixed-strings fixup follow follow-symlinks follow-tags force force-create force-if-includes " +
  "force-in-body-from force-rebase force-remove force-untracked-cache force-with-lease " +
  "force-write-index fork-point format from fsmonitor-valid full full-history full-index full-name " +
  "full-tree function-context geometric get-url glob graft graph grep grep-reflog group guess guides " +
  "hard hash head header heading heads help histogram human-readable ignore-all-space " +
  "ignore-blank-lines ignore-case ignore-cr-at-eol ignore-date ignore-errors ignore-if-in-upstream " +
  "ignore-matching-lines ignore-missing ignore-other-worktrees ignore-removal ignore-rev " +
  "ignore-skip-worktree-bits ignore-skip-worktree-entries ignore-space-at-eol ignore-space-change " +
  "ignore-submodules ignore-unmatch ignore-unmerged ignore-whitespace ignored in-reply-to " +
  "inaccurate-eof include include-untracked incremental indent-heuristic independent index index-info " +
  "index-version info info-only initial-branch inline intent-to-add inter-hunk-context interdiff " +
  "into-name invert-grep invert-match ipv4 ipv6 irreversible-delete is-ancestor ita-invisible-in-index " +
  "ita-visible-in-index jobs keep keep-base keep-cr keep-index keep-largest-pack keep-non-patch " +
  "keep-pack keep-redundant-commits keep-subject keep-unreachable killed left-only left-right " +
  "line-number line-porcelain line-prefix list literally local lock log log-size long lost-found " +
  "mailmap mainline man match max-age max-count max-depth max-pack-size max-parents maximal-only merge " +
  "merge-base merged merges message message-id min-age min-parents minimal mirror missing-ok mixed " +
  "modified more move multiple name-objects name-only name-status negotiate-only negotiation-tip " +
  "non-matching not notes null numbered numbered-files numstat object-format object-names object-only " +
  "objects objects-edge octopus oneline only only-matching only-untracked onto or origin orphan others " +
  "ours output-indicator-context output-indicator-new output-indicator-old overlay overwrite-ignore " +
  "pack-kept-objects parents parseopt patch patch-format patch-with-raw patch-with-stat path " +
  "pathspec-file-nul patience perl perl-regexp pickaxe-all pickaxe-regex points-at porcelain prefetch " +
  "pretty progress prune prune-tags push push-option python quiet quit quoted-cr range-diff raw " +
  "really-refresh reapply-cherry-picks reason rebase rebase-merges recount recurse recurse-submodules " +
  "recursive ref refetch reflog reflogs refmap refresh refs regexp-ignore-case reject reject-shallow " +
  "relative relative-date remerge-diff remote remote-submodules remotes remove remove-empty " +
  "rename-empty renormalize replace repo rerere-autoupdate reroll-count reschedule-failed-exec " +
  "reset-author reset-author-date resolve-undo resolved resolvemsg reuse-message reverse rewrite rfc " +
  "right-only root rotate-to scissors score-debug server-option set-upstream set-upstream-to sha1-name " +
  "shallow-exclude shallow-since shallow-submodules shared shell short shortstat show-current " +
  "show-current-patch show-email show-forced-updates show-function show-linear-break show-name " +
  "show-notes show-number show-pulls show-stash show-stats signature signoff simplify-by-decoration " +
  "simplify-merges since since-as-filter single-branch single-worktree skip skip-to skip-worktree soft " +
  "sort source sparse split-index sq-quote squash src-prefix stage staged stale-fix standard-notes " +
  "start-number stat stat-count stat-graph-width stat-name-width stat-width status stdin stdin-paths " +
  "stdout strategy-option strict subject-prefix submodule suffix summary symlinks symref tags tcl temp " +
  "term-bad term-good test-untracked-cache text theirs thin thread threads to tool-help topics " +
  "topo-order track trailer trust-exit-code undefined unidiff-zero unified unmerged unordered " +
  "unpack-unreachable unpacked unreachable unresolve unset-upstream unshallow until untracked " +
  "untracked-cache untracked-files update update-head-ok update-refs update-shallow updateref " +
  "use-mailmap user-interfaces utf8 verbose verify version walk-reflogs whitespace window window-memory " +
  "with-tree word-diff word-diff-regex word-regexp worktree worktree-attributes write-bitmap-index " +
  "write-commit-graph write-fetch-head write-midx ws-error-highlight zero-commit";
