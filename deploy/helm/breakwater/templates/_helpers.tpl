{{- define "breakwater.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "breakwater.selector" -}}
app.kubernetes.io/name: breakwater
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "breakwater.labels" -}}
{{ include "breakwater.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The pod is the same on both stores, but for where its data is. */ -}}
{{- define "breakwater.pod" -}}
metadata:
  labels:
    {{- include "breakwater.selector" . | nindent 4 }}
  annotations:
    checksum/settings: {{ .Values.settings | toYaml | sha256sum }}
    {{- if .Values.podAnnotations }}
    {{- toYaml .Values.podAnnotations | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml .Values.image.pullSecrets | nindent 4 }}
  {{- end }}
  containers:
    - name: breakwater
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/breakwater/breakwater.yaml]
      env:
        - {name: BREAKWATER_DATA_DIR, value: /data}
        - {name: BREAKWATER_LISTEN, value: ":8080"}
        - {name: BREAKWATER_METRICS_LISTEN, value: ":{{ .Values.metrics.port }}"}
        # A pod that is made anew under its name takes its work back at once.
        - name: BREAKWATER_NODE_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- if eq .Values.store "postgres" }}
        - {name: BREAKWATER_DATABASE_URL_FILE, value: /run/secrets/breakwater/database-url}
        {{- end }}
        {{- if .Values.existingSecret }}
        - {name: BREAKWATER_ENCRYPTION_KEY_FILE, value: /run/secrets/breakwater/encryption-key}
        - {name: BREAKWATER_ADMIN_KEY_FILE, value: /run/secrets/breakwater/admin-key}
        {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: metrics, containerPort: {{ .Values.metrics.port }}}
      # Migrations of a large store may take a while.
      startupProbe:
        httpGet: {path: /livez, port: http}
        periodSeconds: 2
        failureThreshold: 300
      livenessProbe:
        httpGet: {path: /livez, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: settings, mountPath: /etc/breakwater, readOnly: true}
        {{- if .Values.existingSecret }}
        - {name: secrets, mountPath: /run/secrets/breakwater, readOnly: true}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ include "breakwater.name" . }}}
    {{- if .Values.existingSecret }}
    # For the group only: the server refuses an encryption key that all may read.
    - name: secrets
      secret: {secretName: {{ .Values.existingSecret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- if eq .Values.store "postgres" }}
    - name: data
      emptyDir: {}
    {{- end }}
  {{- if .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml .Values.nodeSelector | nindent 4 }}
  {{- end }}
  {{- if .Values.tolerations }}
  tolerations:
    {{- toYaml .Values.tolerations | nindent 4 }}
  {{- end }}
  {{- if .Values.affinity }}
  affinity:
    {{- toYaml .Values.affinity | nindent 4 }}
  {{- end }}
{{- end -}}
